graph [
  label "nothing"
]
