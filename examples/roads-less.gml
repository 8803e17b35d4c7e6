graph [
  directed 1
  node [ id 0 label "depot" kind "depot" ]
  node [ id 1 label "north" kind "shop" ]
  node [ id 2 label "plant" kind "plant" ]
  edge [ source 2 target 0 weight 3 layer 0 label "main road" ]
  edge [ source 0 target 1 weight 1.5 layer 0 ]
  edge [ source 1 target 0 weight 1 layer 1 ]
]
