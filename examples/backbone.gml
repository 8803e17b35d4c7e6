# A European backbone, made up for disco: 29 cities where such networks have their
# exchanges, and links where roads, railways and sea cables run. Places are those of an
# atlas, rounded; Population is that of the urban area in thousands, rounded, which
# weighs the traffic. It describes no operator's network.
#
# LinkSpeedRaw is what a link lends to the traffic of this scenario, in bits per
# second: 155.52 Mb/s (STM-1) in the middle, 34.368 Mb/s (E3) or twice that further
# out, 51.84 Mb/s (STM-0) from Frankfurt to Zurich. London and Paris are joined twice.
# The exchange under the Channel has no place of its own.
graph [
  label "European backbone"
  node [ id 0 label "Amsterdam" Latitude 52.37 Longitude 4.90 Population 2400 ]
  node [ id 1 label "Athens" Latitude 37.98 Longitude 23.73 Population 3600 ]
  node [ id 2 label "Barcelona" Latitude 41.39 Longitude 2.17 Population 4800 ]
  node [ id 3 label "Berlin" Latitude 52.52 Longitude 13.40 Population 4500 ]
  node [ id 4 label "Brussels" Latitude 50.85 Longitude 4.35 Population 2100 ]
  node [ id 5 label "Bucharest" Latitude 44.43 Longitude 26.10 Population 1900 ]
  node [ id 6 label "Budapest" Latitude 47.50 Longitude 19.04 Population 2500 ]
  node [ id 7 label "Copenhagen" Latitude 55.68 Longitude 12.57 Population 1900 ]
  node [ id 8 label "Dublin" Latitude 53.35 Longitude -6.26 Population 1500 ]
  node [ id 9 label "Frankfurt" Latitude 50.11 Longitude 8.68 Population 2500 ]
  node [ id 10 label "Geneva" Latitude 46.20 Longitude 6.15 Population 600 ]
  node [ id 11 label "Hamburg" Latitude 53.55 Longitude 9.99 Population 2900 ]
  node [ id 12 label "Helsinki" Latitude 60.17 Longitude 24.94 Population 1300 ]
  node [ id 13 label "Lisbon" Latitude 38.72 Longitude -9.14 Population 2700 ]
  node [ id 14 label "London" Latitude 51.51 Longitude -0.13 Population 10900 ]
  node [ id 15 label "Lyon" Latitude 45.76 Longitude 4.84 Population 1700 ]
  node [ id 16 label "Madrid" Latitude 40.42 Longitude -3.70 Population 6300 ]
  node [ id 17 label "Marseille" Latitude 43.30 Longitude 5.37 Population 1600 ]
  node [ id 18 label "Milan" Latitude 45.46 Longitude 9.19 Population 5300 ]
  node [ id 19 label "Munich" Latitude 48.14 Longitude 11.58 Population 2700 ]
  node [ id 20 label "Oslo" Latitude 59.91 Longitude 10.75 Population 1500 ]
  node [ id 21 label "Paris" Latitude 48.86 Longitude 2.35 Population 11000 ]
  node [ id 22 label "Prague" Latitude 50.08 Longitude 14.44 Population 2200 ]
  node [ id 23 label "Rome" Latitude 41.90 Longitude 12.50 Population 3200 ]
  node [ id 24 label "Sofia" Latitude 42.70 Longitude 23.32 Population 1300 ]
  node [ id 25 label "Stockholm" Latitude 59.33 Longitude 18.07 Population 2100 ]
  node [ id 26 label "Vienna" Latitude 48.21 Longitude 16.37 Population 2300 ]
  node [ id 27 label "Warsaw" Latitude 52.23 Longitude 21.01 Population 2900 ]
  node [ id 28 label "Zurich" Latitude 47.38 Longitude 8.54 Population 1400 ]
  node [ id 29 label "Channel" hyperedge 1 ]
  edge [ source 8 target 14 LinkSpeedRaw 155520000 ]  # Dublin - London
  edge [ source 14 target 0 LinkSpeedRaw 155520000 ]  # London - Amsterdam
  edge [ source 14 target 21 LinkSpeedRaw 155520000 ]  # London - Paris
  edge [ source 14 target 21 LinkSpeedRaw 155520000 ]  # London - Paris
  edge [ source 0 target 4 LinkSpeedRaw 155520000 ]  # Amsterdam - Brussels
  edge [ source 4 target 21 LinkSpeedRaw 155520000 ]  # Brussels - Paris
  edge [ source 4 target 29 LinkSpeedRaw 155520000 ]  # Brussels - Channel
  edge [ source 29 target 14 LinkSpeedRaw 155520000 ]  # Channel - London
  edge [ source 29 target 21 LinkSpeedRaw 155520000 ]  # Channel - Paris
  edge [ source 0 target 11 LinkSpeedRaw 155520000 ]  # Amsterdam - Hamburg
  edge [ source 0 target 9 LinkSpeedRaw 155520000 ]  # Amsterdam - Frankfurt
  edge [ source 4 target 9 LinkSpeedRaw 155520000 ]  # Brussels - Frankfurt
  edge [ source 21 target 9 LinkSpeedRaw 155520000 ]  # Paris - Frankfurt
  edge [ source 21 target 15 LinkSpeedRaw 155520000 ]  # Paris - Lyon
  edge [ source 21 target 16 LinkSpeedRaw 155520000 ]  # Paris - Madrid
  edge [ source 9 target 19 LinkSpeedRaw 155520000 ]  # Frankfurt - Munich
  edge [ source 9 target 3 LinkSpeedRaw 155520000 ]  # Frankfurt - Berlin
  edge [ source 9 target 28 LinkSpeedRaw 51840000 ]  # Frankfurt - Zurich
  edge [ source 28 target 18 LinkSpeedRaw 155520000 ]  # Zurich - Milan
  edge [ source 18 target 17 LinkSpeedRaw 155520000 ]  # Milan - Marseille
  edge [ source 15 target 17 LinkSpeedRaw 155520000 ]  # Lyon - Marseille
  edge [ source 17 target 2 LinkSpeedRaw 155520000 ]  # Marseille - Barcelona
  edge [ source 2 target 16 LinkSpeedRaw 155520000 ]  # Barcelona - Madrid
  edge [ source 19 target 26 LinkSpeedRaw 155520000 ]  # Munich - Vienna
  edge [ source 18 target 26 LinkSpeedRaw 155520000 ]  # Milan - Vienna
  edge [ source 18 target 23 LinkSpeedRaw 155520000 ]  # Milan - Rome
  edge [ source 16 target 13 LinkSpeedRaw 34368000 ]  # Madrid - Lisbon
  edge [ source 13 target 14 LinkSpeedRaw 34368000 ]  # Lisbon - London
  edge [ source 15 target 10 LinkSpeedRaw 34368000 ]  # Lyon - Geneva
  edge [ source 10 target 28 LinkSpeedRaw 34368000 ]  # Geneva - Zurich
  edge [ source 11 target 3 LinkSpeedRaw 155520000 ]  # Hamburg - Berlin
  edge [ source 11 target 7 LinkSpeedRaw 155520000 ]  # Hamburg - Copenhagen
  edge [ source 7 target 25 LinkSpeedRaw 34368000 ]  # Copenhagen - Stockholm
  edge [ source 7 target 20 LinkSpeedRaw 34368000 ]  # Copenhagen - Oslo
  edge [ source 20 target 25 LinkSpeedRaw 34368000 ]  # Oslo - Stockholm
  edge [ source 25 target 12 LinkSpeedRaw 34368000 ]  # Stockholm - Helsinki
  edge [ source 12 target 27 LinkSpeedRaw 34368000 ]  # Helsinki - Warsaw
  edge [ source 3 target 27 LinkSpeedRaw 34368000 ]  # Berlin - Warsaw
  edge [ source 3 target 22 LinkSpeedRaw 68736000 ]  # Berlin - Prague
  edge [ source 22 target 26 LinkSpeedRaw 68736000 ]  # Prague - Vienna
  edge [ source 26 target 6 LinkSpeedRaw 155520000 ]  # Vienna - Budapest
  edge [ source 27 target 6 LinkSpeedRaw 34368000 ]  # Warsaw - Budapest
  edge [ source 6 target 5 LinkSpeedRaw 34368000 ]  # Budapest - Bucharest
  edge [ source 6 target 24 LinkSpeedRaw 68736000 ]  # Budapest - Sofia
  edge [ source 5 target 24 LinkSpeedRaw 34368000 ]  # Bucharest - Sofia
  edge [ source 24 target 1 LinkSpeedRaw 34368000 ]  # Sofia - Athens
  edge [ source 1 target 23 LinkSpeedRaw 34368000 ]  # Athens - Rome
]
