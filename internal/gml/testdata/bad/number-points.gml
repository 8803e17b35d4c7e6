graph [
  node [ id 0 Latitude 1.2.3 Longitude 0 ]
]
