"""What any method may have: parts that stand around it."""
