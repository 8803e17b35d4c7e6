graph [
  node [ id 0 label "a&#27;[2J" ]
]
