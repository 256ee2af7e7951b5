#!/usr/bin/env python3
"""The figures of tenants_victim.py, from looks whose results are known."""
import unittest

from tenants_victim import Measured, StepClock, percentile


class StepClockTest(unittest.TestCase):
    def seconds(self, looks, end):
        clock = StepClock(100)
        for now, step in looks:
            clock.look(step, now)
        return clock.seconds(end)

    def test_steps_between_the_first_and_the_newest_change(self):
        # Steps 5, 6, 7 and 8 end at 102, 104, 106, 108: two seconds each, whenever one looks.
        looks = [(101, 4), (102, 5), (103, 5), (104, 6), (106, 7), (108, 8), (109, 8)]
        self.assertEqual(self.seconds(looks, 109), 2)

    def test_several_steps_between_two_looks(self):
        self.assertEqual(self.seconds([(100, 4), (102, 5), (108, 8)], 108), 2)

    def test_a_job_that_stopped_moving(self):
        # Steps of 2 s until 106, and none until 138: 36 s for two steps and the one that hangs.
        self.assertEqual(self.seconds([(100, 4), (102, 5), (104, 6), (106, 7)], 138), 12)

    def test_a_job_that_never_moved(self):
        self.assertEqual(self.seconds([(101, 4), (129, 4)], 130), 30)
        self.assertEqual(self.seconds([], 130), 30)

    def test_one_step(self):
        # The step ended at 110; the next one has taken 20 s so far.
        self.assertEqual(self.seconds([(101, 4), (110, 5)], 130), 20)


class FiguresTest(unittest.TestCase):
    def test_percentile(self):
        self.assertEqual(percentile(range(1, 101), 0.99), 99)
        self.assertEqual(percentile(range(1, 201), 0.99), 198)
        self.assertEqual(percentile([3, 1, 2], 0.5), 2)
        self.assertEqual(percentile([7], 0.99), 7)
        self.assertEqual(percentile([], 0.99), 0)

    def test_slowest_call(self):
        measured = Measured()
        self.assertEqual(measured.slowest_call()[1], 0)
        measured.calls_ms = [("GetJob", 3), ("CreateJob", 40), ("GetJob", 5)]
        self.assertEqual(measured.slowest_call(), ("CreateJob", 40))


if __name__ == "__main__":
    unittest.main()
