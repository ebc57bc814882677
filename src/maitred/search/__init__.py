"""Find tools by what they do, in process and offline.

It ranks; what a viewer may see comes in as a mask. `lexical` and `dense` score, `fusion` makes one ranking,
`index` holds both, `engine` is what the gateway uses; `embedders` and `rerank` are optional models.
To add an embedder, implement the protocol `Embedder` of `base` and name it in `embedders.make_embedder`.
"""
