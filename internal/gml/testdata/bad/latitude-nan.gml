graph [
  node [ id 0 Latitude NaN Longitude 4.0 ]
]
