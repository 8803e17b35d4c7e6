graph [
  node [ id 0 ]
  node [ id 1 ]
  edge [ source 2 target 1 ]
]
