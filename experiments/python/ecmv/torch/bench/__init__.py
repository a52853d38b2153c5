"""`python -m ecmv.torch.bench MODEL`: a model of transformers with coded and with uncompressed weights, in one run.

    __main__.py    the command line, and the order of things
    models.py      the model: a checkpoint, a config.json or a named shape
    weights.py     weights with the statistics of a language model's, as the source llm_like draws them
    stores.py      ways to hold the weights: uncompressed, coded, and public rivals that are installed
    sessions.py    a prompt and steps of decoding, eager, as a CUDA graph or compiled
    checks.py      whether products and logits are what they must be
    machine.py     the machine, and what else it does meanwhile
    lines.py       records, as `ecmv report` and ecmv.read_records() read them
    summary.py     the table that is printed, and the largest batch within some memory
"""
