graph [
  node [ id 0.5 ]
]
