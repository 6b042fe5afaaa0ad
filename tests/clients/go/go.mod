module over_tls

go 1.19
