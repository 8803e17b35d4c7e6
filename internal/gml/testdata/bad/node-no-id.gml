graph [
  node [ label "a" ]
  node [ id 1 ]
  edge [ source 0 target 1 ]
]
