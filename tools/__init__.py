"""Scripts for those who work on the project; none of them is part of the package."""
