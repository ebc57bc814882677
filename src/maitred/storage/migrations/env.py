"""What Alembic runs: the migrations over the connection that a `Database` hands in."""

from alembic import context

from maitred.storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True
)
with context.begin_transaction():
    context.run_migrations()
