graph [
  node [ id 0 id 1 ]
]
