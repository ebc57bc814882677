"""Keep standard output for figures: what libraries and maitred log in this process is left out."""

import logging
import sys

import structlog


def quiet() -> None:
    """Log nothing below errors, and those to standard error."""
    logging.disable(logging.WARNING)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
