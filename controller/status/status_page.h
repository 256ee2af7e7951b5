// The page for people: one document without outside assets, from status_page.html and .css.
#ifndef BATON_CONTROLLER_STATUS_STATUS_PAGE_H_
#define BATON_CONTROLLER_STATUS_STATUS_PAGE_H_

namespace baton::status {

/// UTF-8, ends with a zero byte.
extern const char kStatusPage[];

}  // namespace baton::status

#endif  // BATON_CONTROLLER_STATUS_STATUS_PAGE_H_
