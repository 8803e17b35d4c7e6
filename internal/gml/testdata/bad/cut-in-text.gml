graph [
  node [
    id 0
    label "New Yo