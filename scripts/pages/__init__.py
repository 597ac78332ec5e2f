"""The pages of the site that follow from the project itself: operators from their classes, charts from logged runs."""
