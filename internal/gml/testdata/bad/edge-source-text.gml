graph [
  node [ id 0 ]
  edge [ source "a" target 0 ]
]
