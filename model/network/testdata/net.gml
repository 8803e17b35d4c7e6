# Small, with everything in it that a network may have: parallel edges, an edge to
# itself, a node without a place, a junction, labels twice or odd, a part by itself.
graph [
  label "small"
  node [ id 0 label "a" Latitude 50 Longitude 8 Mass 4 Wrong -1 ]
  node [ id 1 label "b" Latitude 51 Longitude 9 Mass 3 Wrong 1 ]
  node [ id 2 label "c" Latitude 52 Longitude 7 Mass 2 Wrong 1 ]
  node [ id 3 label "j" hyperedge 1 Mass 0 Wrong 1 ]
  node [ id 4 label "x/y" Latitude 40 Longitude 0 Mass 1 Wrong 1 Half 1 ]
  node [ id 5 label "twin" Latitude 41 Longitude 0 Mass 1 Wrong 1 ]
  node [ id 6 label "twin" Latitude 42 Longitude 0 Mass 0 Wrong 1 ]
  edge [ source 0 target 1 LinkSpeedRaw 1e6 ]
  edge [ source 1 target 0 LinkSpeedRaw 2e6 ]
  edge [ source 1 target 2 ]
  edge [ source 2 target 3 ]
  edge [ source 3 target 0 ]
  edge [ source 2 target 2 ]
  edge [ source 4 target 5 ]
  edge [ source 5 target 6 ]
]
