graph [
  node [ id 0 Latitude 1e999 Longitude 4.0 ]
]
