"""What pages of both sides carry from others: uPlot, which draws their charts, with its licence beside it."""
