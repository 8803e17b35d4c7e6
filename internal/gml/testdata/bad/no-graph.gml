Creator "somebody"
Version 1
