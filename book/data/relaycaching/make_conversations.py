"""Write conversations.json: what three agents answered, as token ids.

    python book/data/relaycaching/make_conversations.py

Runs SmolLM2-135M-Instruct greedily (repetition penalty 1.1, float32) on the questions of the
chapter's default seeds and on its profiling questions. A few minutes on two CPU cores.
Licence of the generated text: CC BY 4.0, as the book's text.
"""

import json
import os
from pathlib import Path

from labbook import chapter, data, models, runtime

MODEL, NEW_TOKENS = "smollm2-135m-instruct", [192, 96, 48]
JOBS = {"0": data.tasks(0, 2), "1": data.tasks(1, 2), "profile": data.tasks("profile", 2)}

runtime.set_threads()
model, tokenizer = models.load_causal_lm(MODEL)
converse = chapter("relaycaching").converse
seeds = {}
for key, tasks in runtime.progress(JOBS.items(), "conversations"):
    questions = [task.question for task in tasks]
    talks = converse(model, tokenizer, questions, NEW_TOKENS)
    seeds[key] = {q: [a[0].tolist() for a in talk] for q, talk in zip(questions, talks)}
out = Path(__file__).with_name("conversations.json")
temporary = out.with_suffix(".tmp")
written_by = "python book/data/relaycaching/make_conversations.py"
whole = {"written_by": written_by, "model_id": MODEL, "new_tokens": NEW_TOKENS, "seeds": seeds}
temporary.write_text(json.dumps(whole) + "\n")
os.replace(temporary, out)
