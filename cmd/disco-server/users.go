// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"fmt"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// blocks are the certificates of a file.
func blocks(flag, file string) (all [][]byte, err error) {
	text, err := readFile(file, 1<<20)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			all = append(all, block.Bytes)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s %s holds no certificate in PEM", flag, file)
	}
	return all, nil
}

// checkUsers refuses an authority of users that is also that of servers: these believe each other everything, and each
// machine would be a user of its name.
func (o *options) checkUsers() error {
	if o.usersCA == "" {
		return nil
	}
	users, err := blocks("--users-ca", o.usersCA)
	if err != nil {
		return err
	}
	servers, err := blocks("--ca", o.ca)
	if err != nil {
		return err
	}
	for _, u := range users {
		for _, s := range servers {
			if bytes.Equal(u, s) {
				return fmt.Errorf("--users-ca %s has an authority that --ca %s has, too: whoever has a certificate of "+
					"it could be a server, and change everything; want one that signs users alone: `certs issue "+
					"--user` makes it",
					o.usersCA, o.ca)
			}
		}
	}
	return nil
}

// users has the store take who shows a certificate of the users' authority for the user that it names. etcd asks
// everybody for a certificate then; here who has a password needs none, so that both kinds of users are let in.
func (o *options) users(c *embed.Config) error {
	if o.usersCA == "" {
		return nil
	}
	c.ClientTLSInfo = transport.TLSInfo{CertFile: o.cert, KeyFile: o.key, TrustedCAFile: o.usersCA,
		ClientCertAuth: true}
	config, err := c.ClientTLSInfo.ServerConfig()
	if err != nil {
		return fmt.Errorf("--users-ca: %w", err)
	}
	config.ClientAuth, config.MinVersion = tls.VerifyClientCertIfGiven, tls.VersionTLS13
	// The last option that says how connections are secured counts.
	c.GRPCAdditionalServerOptions = append(c.GRPCAdditionalServerOptions, grpc.Creds(credentials.NewTLS(config)))
	return nil
}
