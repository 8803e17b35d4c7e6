graph [
  node [
    id