graph [
  "label" "a"
]
