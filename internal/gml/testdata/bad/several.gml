graph [
  node [ id 0 Latitude 99 Longitude 0 ]
  node [ id 1 ]
  node [ id 1 ]
  edge [ source 0 target 7 ]
  edge [ source 1 ]
]
