graph [
  node 7
]
