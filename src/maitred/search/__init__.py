"""Find tools by what they do, in process and offline.

It answers with tools and scores; `disclosure` renders them and `gateway` checks access. `lexical` matches
words, `dense` matches vectors, `fusion` joins both, `index` holds them and `engine` runs them. To add an
embedder or a reranker, implement the protocol in `base` and add a case to `make_embedder` or `make_reranker`.
"""
