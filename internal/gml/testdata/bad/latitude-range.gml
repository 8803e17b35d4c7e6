graph [
  node [ id 0 Latitude 91 Longitude 4.0 ]
]
