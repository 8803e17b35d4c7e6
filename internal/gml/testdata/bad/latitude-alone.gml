graph [
  node [ id 0 Latitude 50.1 ]
]
