"""`python -m ecmv.torch.bench MODEL`; README.md has a map of the files."""
