graph [
  node [ id 99999999999999999999 ]
]
