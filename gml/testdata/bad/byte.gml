graph [
  ÿ
]
