"""Reading answers that were too long to show; these are methods of `Gateway`."""

from maitred.calls.results import ResultPage
from maitred.gateway.stored_results import StoredResults
from maitred.model.access import Viewer


class ResultMethods:
    """The methods of a gateway about stored answers."""

    _results: StoredResults

    def result(self, result_id: str, cursor: str = "", *, viewer: Viewer, find: str = "") -> ResultPage:
        """A page of an answer that was too long, or the parts of it that have the words of `find`.

        Raises:
            ResultNotFoundError: It is not stored, or not any more, or not for this principal.
        """
        return self._results.page(viewer, result_id, cursor, find)

    async def fetch_result(self, result_id: str, *, viewer: Viewer) -> None:
        """Have an answer for `result` that another gateway stored; `result` knows whose it is."""
        await self._results.fetch(result_id)
