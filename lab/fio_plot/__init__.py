"""fio's documents as fio-plot reads them, and the commands that draw them."""

from lab.parts import Part

PART = Part(adds={"export --fio-plot": "lab.fio_plot.documents:export"})
