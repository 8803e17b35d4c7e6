graph [
  node [ id 0 Longitude 8.7 ]
]
