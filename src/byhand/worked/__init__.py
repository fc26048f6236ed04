"""From arrays to written-out arithmetic and pictures: what a cell returns shows LaTeX in a notebook and text in a terminal."""

from byhand.worked.by_hand import by_hand
from byhand.worked.diagram import Around, Box, diagram
from byhand.worked.display import Written, beside, table
from byhand.worked.experiments import TrainingCourse
from byhand.worked.graphs import reversed_graph, reversed_model
from byhand.worked.ledger import document_figures
from byhand.worked.live_figure import live_figure
from byhand.worked.matrices import matrix, matrix_product
from byhand.worked.pictures import architecture, bars, lines, projections
from byhand.worked.plotting import Picture, heatmap, heatmaps, picture, product, use_book_style
from byhand.worked.rows import layer_norm_backward_row, layer_norm_row, loss_terms, rms_norm_backward_row, rms_norm_row, softmax_backward_row, softmax_row
from byhand.worked.scenes import lifted_row, readings, road
from byhand.worked.sheets import one_sheet, sheet
from byhand.worked.source import show_source
from byhand.worked.steps import adam_steps, rope_row
from byhand.worked.sums import number, outer_product, product_entry, sum_of_terms
from byhand.worked.verdicts import agreement, printed_table, witnesses
from byhand.worked.walk import Walk
