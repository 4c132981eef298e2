"""Formulas over finite variables, and their weighted counts: by circuits, or by enumeration."""
