def massless_subtrees(model):
    return []
