graph [
  node [ id 0 ]
  edge "a"
]
