#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Writes a supply network as tables for `disco-run graph import`: one source, warehouses, and shops that order from
# them, with lead times as weights, and labels. docs/scenario-graph.md shows what to do with them.
#
#   sh examples/supply-graph.sh FOLDER [WAREHOUSES [SHOPS]]

set -e
folder=${1:?want the folder for the tables} warehouses=${2:-10} shops=${3:-90}
mkdir -p "$folder"
awk -v folder="$folder" -v warehouses="$warehouses" -v shops="$shops" 'BEGIN {
	vertices = folder "/vertices.csv"; edges = folder "/edges.csv"; labels = folder "/labels.csv"
	print "name" > vertices
	print "source,target,weight" > edges
	print "vertex,type,label" > labels
	print "harbour" > vertices
	print "harbour,kind,source" > labels
	for (w = 1; w <= warehouses; w++) {
		name = "warehouse-" w
		print name > vertices
		print name ",kind,warehouse" > labels
		print name ",region,r" w > labels
		print "harbour," name "," 3 + w % 5 / 4 > edges
	}
	for (s = 1; s <= shops; s++) {
		name = "shop-" s; w = int((s - 1) * warehouses / shops) + 1
		print name > vertices
		print name ",kind,shop" > labels
		print name ",region,r" w > labels
		print name ",size," (s % 10 ? "small" : "large") > labels
		print "warehouse-" w "," name "," 0.5 + s % 7 / 8 > edges
	}
}'
