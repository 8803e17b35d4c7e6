graph [
  node [ id 0 Latitude 1 Longitude "8E" ]
]
