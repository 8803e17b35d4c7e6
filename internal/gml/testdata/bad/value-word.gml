graph [
  label Europe
  node [ id 0 ]
]
