graph [
  node [ id 0x10 ]
]
