"""The mind at work: the only writer of self-state, its history, its reader of models' proposals, its projections."""
