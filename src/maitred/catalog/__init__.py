"""What is known of all servers and tools: the store is the truth, an immutable snapshot serves all reads.

This package starts no server and judges none: `discovery` asks the pool, and the `stages` ask other
packages. `sync` and `names` are pure, `snapshot` is what readers see, `live` is the only writer.
To add a stage of a discovery, write it in `stages` and have `discovery` apply it before the write.
"""
