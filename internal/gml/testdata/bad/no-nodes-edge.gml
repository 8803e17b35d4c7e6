graph [
  edge [ source 0 target 1 ]
]
