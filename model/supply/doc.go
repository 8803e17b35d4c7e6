// SPDX-License-Identifier: Apache-2.0

// Package supply simulates supply networks: plants, warehouses and shops with stocks of products, which order from each
// other by reorder policies, make, deliver after lead times, and sell.
//
// Guarantee: units are whole numbers, so none is lost or made by rounding; a location takes in what arrives at an
// instant first, then what is asked for, and reviews its policies last, so results don't depend on who does what where;
// every stock, line and demand draws from a stream of its own. A file at fault is refused field by field.
//
//	model: supply
//	horizon: 100000
//	locations: [{id: shop}, {id: maker, source: true}]
//	products: [{id: tea}]
//	links: [{from: maker, to: shop, lead_time: exponential(3)}]
//	stock: [{at: shop, policy: base_stock, up_to: 8}]
//	demand: [{at: shop, gap: exponential(0.5)}]
//
// docs/model-supply.md has what is simulated and what is known of it, docs/scenario-supply.md the fields.
package supply
